export function JobPage() {
  return <h1>todo</h1>
}
