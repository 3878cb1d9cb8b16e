# Metrics, runs on the way, analyses and embeddings → figures.


wildcard_constraints:
    figure=PLAN.alternation(name.split("/")[1] for name in PLAN.figures),


rule figure:
    input:
        measured=lambda wildcards: figure_plan.figure_inputs(
            PLAN, f"{wildcards.paper}/{wildcards.figure}"
        ),
        reference=code_file("references/{paper}/{figure}.yaml"),
        tables=lambda wildcards: [
            code_file(f"references/{wildcards.paper}/{table}.csv")
            for table in PLAN.figures[
                f"{wildcards.paper}/{wildcards.figure}"
            ].published_tables()
        ],
        paper=code_file("references/{paper}/paper.yaml"),
        lock=code_file("envs/requirements.lock"),
        sources=lambda wildcards: PLAN.figure_sources(wildcards.paper, wildcards.figure),
        code=stage_sources("figure.py"),
        schemas=[
            code_file(f"schemas/{name}.schema.yaml")
            for name in ("figures", "references")
        ],
    output:
        csv=f"{ROOT}/figures/{{paper}}/{{figure}}.csv",
        svg=report(
            f"{ROOT}/figures/{{paper}}/{{figure}}.svg",
            caption="../docs/captions/figure.rst",
            category="Figures",
            subcategory="{paper}",
            labels={"figure": "{figure}"},
        ),
        manifest=f"{ROOT}/figures/{{paper}}/{{figure}}.manifest.json",
    log:
        f"{ROOT}/logs/figure/{{paper}}/{{figure}}.log",
    benchmark:
        f"{ROOT}/benchmarks/figure/{{paper}}-{{figure}}.tsv"
    conda:
        "../envs/cpu.yaml"
    threads: NEEDS["figure"].threads
    resources:
        **NEEDS["figure"].resources,
    params:
        setting=lambda wildcards: as_argument(
            figure_plan.setting_of(PLAN, wildcards.paper)
        ),
        hash=config_hash(config),
    message:
        "Drawing {wildcards.paper} {wildcards.figure}"
    shell:
        "OMP_NUM_THREADS={threads} "
        f"python {SCRIPTS}/figure.py"
        " --reference {input.reference:q} --setting {params.setting}"
        " --config-hash {params.hash} --lock {input.lock:q} --sources {input.sources:q}"
        " --csv {output.csv} --svg {output.svg} --manifest {output.manifest} --log {log}"
