"""What the scripts of this folder share: the software they need, and the brokers they start."""
