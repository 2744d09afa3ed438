"""The paper of the trials."""
