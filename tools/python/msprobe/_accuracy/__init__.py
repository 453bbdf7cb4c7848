"""The worker of `msprobe run_ut` and `acc_check`: a script that runs operators for the program, see worker.py."""
