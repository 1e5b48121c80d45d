"""Tests of the target model's adapter."""
