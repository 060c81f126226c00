"""What Python 3.9 and 3.10 lack of the standard library, under the same names. Lowered code imports it from here.

It travels as bgjob/stand_ins, and only with lowered code. A name that is not here is that of the library.

    bisect     with a key
    datetime   UTC
    itertools  pairwise
    re         possessive repetition
    tomllib    that there is none
    typing     names that only a type checker needs
"""
