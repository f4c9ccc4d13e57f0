"""Batch layer normalization: all experiments of Ziaee & Çano (2022), and controls."""
