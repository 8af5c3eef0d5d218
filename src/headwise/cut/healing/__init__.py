"""A short fine-tune after heads were cut, shown beside the same tuning of the uncut model."""
