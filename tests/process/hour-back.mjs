// Preloaded into a server (node --import) by the tests: its wall clock is an hour behind from the start.
const now = Date.now
Date.now = () => now() - 3_600_000
