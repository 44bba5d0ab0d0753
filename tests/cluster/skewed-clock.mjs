// Preloaded into a server (node --import) by the tests: its wall clock is wrong by SKEW_MS, from the first moment on.
const RealDate = Date
const skewMs = Number(process.env.SKEW_MS ?? 0)

globalThis.Date = class Date extends RealDate {
  constructor(...args) {
    if (args.length === 0) super(RealDate.now() + skewMs)
    else super(...args)
  }

  static now() {
    return RealDate.now() + skewMs
  }
}
