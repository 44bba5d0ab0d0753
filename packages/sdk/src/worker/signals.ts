/** The signals a worker obeys (OJS worker protocol §9). */
export type SignalName = 'SIGTERM' | 'SIGINT' | 'SIGTSTP' | 'SIGCONT'

/** Windows knows no job control. */
const KNOWN: readonly SignalName[] =
  process.platform === 'win32' ? ['SIGTERM', 'SIGINT'] : ['SIGTERM', 'SIGINT', 'SIGTSTP', 'SIGCONT']

/** Returns how to be deaf to them again. */
export function onSignals(listeners: Readonly<Record<SignalName, () => void>>): () => void {
  for (const name of KNOWN) process.on(name, listeners[name])
  return () => {
    for (const name of KNOWN) process.off(name, listeners[name])
  }
}
