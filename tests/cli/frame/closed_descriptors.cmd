# None of the three may be handed out again for a file.
kvcal --help <&- >&- 2>&-
# exits 2
