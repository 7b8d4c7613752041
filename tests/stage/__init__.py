"""The stage: the product's own code on virtual time, with faults and an order from one seed."""
