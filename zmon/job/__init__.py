"""A job as its ranks' steps tell it: lined up, remembered, compared and accounted for. Pure."""
