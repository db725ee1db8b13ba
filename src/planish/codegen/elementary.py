def exp(b, x, type):
    raise NotImplementedError


log = tanh = erf = exp
