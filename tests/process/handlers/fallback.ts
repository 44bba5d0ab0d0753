const codec: string = 'vp9'
export default codec
