"""The workbook: its notebooks run headless, and their pages, which need no network.

One page a notebook, a first page, and beside them what all share: one copy of plotly.js, the
mathematical font, a style sheet. They are made by :func:`lnlab.book.html.publish`.
"""
