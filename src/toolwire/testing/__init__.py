"""What tests of toolwire, and of anything that speaks its protocols, can use."""
