"""A platform: two gateways with one state, six upstreams and five callers, from the first list to a restored backup."""
