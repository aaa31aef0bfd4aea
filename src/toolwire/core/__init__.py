"""The narrow waist: values, shapes and rules that every protocol shares. Standard library only, no input or output."""
