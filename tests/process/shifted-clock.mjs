// Preloaded into a server (node --import) by the tests: lets them step its wall clock. The monotonic clock stays.
const RealDate = Date
let shiftMs = 0

globalThis.Date = class Date extends RealDate {
  constructor(...args) {
    if (args.length === 0) super(RealDate.now() + shiftMs)
    else super(...args)
  }

  static now() {
    return RealDate.now() + shiftMs
  }
}

process.on('message', (message) => {
  shiftMs = message.shiftMs
  process.send({ now: Date.now() })
})
// The channel must not keep a server alive that has nothing else to do.
process.channel.unref()
