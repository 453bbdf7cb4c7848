LR = 1e-3
sizes = [1, (2, 'x'), {'a': None}]
parser.add_argument('-b', '--batch', default=8, help="a, b)")
'''open
