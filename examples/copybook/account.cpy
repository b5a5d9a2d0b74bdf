       01  ACCOUNT.
           05  ACCOUNT-ID   PIC 9(6).
           05  OWNER        PIC X(10).
           05  BALANCE      PIC S9(7)V99 COMP-3.
           05  CARD OCCURS 2.
               10  LAST-4   PIC 9(4).
               10  EXPIRES  PIC 9(4) COMP.
