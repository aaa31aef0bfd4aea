"""OAuth as values and rules: what may be asked, what may be granted, what a token is good for. No input or output.

Rules:
- Clocks, randomness and answers of the network come in as arguments.
- URLs of others are compared as the text they are; nothing is normalised before it is compared.
- An expected refusal is a Refusal, in the words of the OAuth specifications.
"""
