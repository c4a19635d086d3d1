"""Files in a workspace that paths cannot leave: reading, searching, editing, patching, and what a change was."""
