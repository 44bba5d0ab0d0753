// The child of startLoad: makes the calls it is given, and sends back the answers.
process.on('message', async ({ module, name, args }) => {
  try {
    const loaded = await import(module)
    process.send({ value: await loaded[name](args) })
  } catch (error) {
    process.send({ error: error.stack })
  }
})
