"""The lab shown: on a terminal, as pictures, as lessons in Markdown and HTML, as a course of all."""
