from bgjob.cli import main

main()
