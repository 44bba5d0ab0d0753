export function Jobs() {
  return <h1>todo</h1>
}
