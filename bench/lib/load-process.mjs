// The child of startLoad: calls what it is told to call, and sends back what that answers.
process.on('message', async ({ module, name, args }) => {
  try {
    const loaded = await import(module)
    process.send({ value: await loaded[name](args) })
  } catch (error) {
    process.send({ error: error.stack })
  }
})
