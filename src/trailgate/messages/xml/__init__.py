"""XML messages: so far the tables that their properties define."""
