export function Workflows() {
  return <h1>todo</h1>
}
export const WorkflowPage = Workflows
