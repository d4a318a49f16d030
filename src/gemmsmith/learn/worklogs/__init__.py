"""Published worklogs beside our ladder, and what they claim, run again."""
