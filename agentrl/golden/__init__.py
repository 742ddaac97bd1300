"""Recordings of games replayed through ours: `agentrl check-golden`."""
