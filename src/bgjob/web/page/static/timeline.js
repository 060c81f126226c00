export const open = () => ({ close() {} });
