"""What leaves the house: certificates, registers, statements, reports and charts."""
