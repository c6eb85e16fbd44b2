echo later
