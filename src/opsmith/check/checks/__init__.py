"""The properties' code: one module for each question about an operator. `opsmith.check.properties` lists them."""
