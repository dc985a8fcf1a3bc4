"""What every room needs: errors, seeds, files, records, interrupts."""
