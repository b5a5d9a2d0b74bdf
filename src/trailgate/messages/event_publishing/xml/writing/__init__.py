"""Operations to XML publications."""
