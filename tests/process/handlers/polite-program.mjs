process.on('SIGTERM', () => {
  process.stdout.write('cleaned up\n')
})
setInterval(() => {}, 1_000)
process.stdout.write('here\n')
