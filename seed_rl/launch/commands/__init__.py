"""What each command of the command line does. TensorFlow is imported by those that need it only."""
