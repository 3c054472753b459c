//! How processes live and die with the agent inside.
