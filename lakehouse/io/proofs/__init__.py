"""Proof that a store honours conditions: checks, races, and the record of both."""
