"""The commands of the command line. Only those that need TensorFlow import it."""
