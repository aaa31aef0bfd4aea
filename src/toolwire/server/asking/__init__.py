"""Ask users before a call runs and while it runs: confirmations, consent of hosts, the inbox, receipts."""
