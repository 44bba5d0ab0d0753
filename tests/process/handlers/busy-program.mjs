process.on('SIGTERM', () => {})
process.stdout.write('busy\n', () => {
  for (;;);
})
