export function Timeouts() {
  return <h1>todo</h1>
}
