export function Settings() {
  return <h1>todo</h1>
}
