"""What must be there: settings, data and models, embedded servers, training."""
