"""The Pulumi project: what turns a cluster spec into nodes, one package a provider."""
