"""The command line of the project: `medrerun`."""
