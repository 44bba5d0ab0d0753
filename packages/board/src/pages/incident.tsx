export function Incident() {
  return <h1>todo</h1>
}
